"""Order: which earlier accesses an access is ordered after, and what is reported where it is not."""
