"""Reports of a run: readers of its event file that write JUnit, Markdown or one HTML page."""
