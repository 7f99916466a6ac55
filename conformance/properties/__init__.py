"""The catalogue of properties that a quantised kernel must have, who checks each, and what each contract says of it."""
