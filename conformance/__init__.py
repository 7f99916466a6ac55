"""Do oracle, simulator and GPU agree, and if not, why? Cases, runs, reports, faults and the command line."""
