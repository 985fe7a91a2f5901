"""The OpenTelemetry bridge for AI agents that puts failures first."""
