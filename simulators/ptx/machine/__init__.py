"""The machine that runs the decoded form: lanes, registers, memories, schedules, collectives, order."""
