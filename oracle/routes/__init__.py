"""Routing rules of the three systems and the widths that reach each route."""
