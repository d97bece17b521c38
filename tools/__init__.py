"""What users do with models: inspect, explain, compare."""
