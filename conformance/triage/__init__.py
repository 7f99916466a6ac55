"""Triage: why does a case fail? Explanations are tried against what was observed and ranked; read `triage`."""
