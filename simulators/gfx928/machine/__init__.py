"""The machine that runs wave programs: registers, LDS, waits, barriers, and what it checks."""
