"""From records to the decoded form: register slots for operands, one step for each instruction."""
