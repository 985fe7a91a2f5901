"""The state folder of the commands: where it is, and the one identity that all of them share."""

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

STATE_VARIABLE: Final = "COMPASS_OTEL_STATE"
_INSTANCE_FILE: Final = "instance-id"
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600


def state_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Say where the state folder is; it need not exist.

    `COMPASS_OTEL_STATE`, else `XDG_STATE_HOME/compass-otel`, else `~/.local/state/compass-otel`.
    """
    variables = os.environ if environment is None else environment
    if variables.get(STATE_VARIABLE):
        return Path(variables[STATE_VARIABLE])
    # The standard says that a relative path in this variable is invalid and to be ignored.
    xdg = Path(variables.get("XDG_STATE_HOME") or "")
    return (xdg if xdg.is_absolute() else Path.home() / ".local" / "state") / "compass-otel"


def instance_id(folder: Path) -> str:
    """Give the folder's `service.instance.id`, made at its first use; several processes agree on one.

    A folder that cannot be written still has an id, derived from its path: the same for everyone who cannot write it.
    """
    path = folder / _INSTANCE_FILE
    made = str(uuid.uuid4())
    try:
        folder.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        # Written whole before it gets its name, so that whoever finds the file finds an id in it; the first name wins.
        draft = folder / f"{_INSTANCE_FILE}.{made}"
        draft.touch(mode=_PRIVATE_FILE)
        draft.write_text(made, encoding="ascii")
        try:
            os.link(draft, path)
        except FileExistsError:
            made = path.read_text(encoding="ascii").strip() or made
        finally:
            draft.unlink()
    except (OSError, ValueError):
        return str(uuid.uuid5(uuid.NAMESPACE_URL, folder.absolute().as_uri()))
    return made
