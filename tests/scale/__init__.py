"""Tests of `examples/scale`: many hosts, Kafka, consumers that share the work, storage; and the model of their size."""
