"""Arithmetic as pure functions over raw bits, each with the rule for bits that nothing wrote."""
