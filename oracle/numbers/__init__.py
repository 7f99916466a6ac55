"""Numbers and their formats: exact values, rounding, conversion and its fast twins."""
