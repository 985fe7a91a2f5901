"""Tests of the dashboards, the alert rules and the starting stack."""
