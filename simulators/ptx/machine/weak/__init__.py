"""Weak behaviour: stores that other blocks see late, and loads that see what was there before."""
