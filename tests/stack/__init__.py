"""The real stack: builds, starts and hurts the Collector, Jaeger and Prometheus."""
