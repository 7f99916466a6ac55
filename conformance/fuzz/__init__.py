"""Search for findings where nobody has looked: parameters and bits of inputs, drawn, judged, kept and shrunk.

Hypothesis draws trials from what a contract says of its parameters (`conformance.space`); each is judged like any
case; one that shows something new is shrunk until nothing smaller shows it, and ends as a crash file that
`tileproof replay` runs. What reached new lines of PTX is kept for the next search. See `docs/running.md`.
"""
