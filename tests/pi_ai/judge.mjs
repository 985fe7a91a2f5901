// Judges assistant messages by the functions that a package exports: `node judge.mjs FOLDER < messages.json`.
// Prints one [overflow, retryable] per message; `contextWindow` of a message is the window it is judged by.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const folder = resolve(process.argv[2]);
const exported = (name) => import(pathToFileURL(join(folder, "dist", "utils", `${name}.js`)).href);
const { isContextOverflow } = await exported("overflow");
const { isRetryableAssistantError } = await exported("retry");

const messages = JSON.parse(readFileSync(0, "utf8"));
const verdicts = messages.map((message) => [
  isContextOverflow(message, message.contextWindow),
  isRetryableAssistantError(message),
]);
process.stdout.write(JSON.stringify(verdicts));
