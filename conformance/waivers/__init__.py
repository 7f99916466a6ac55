"""Waivers: findings that are known and tolerated for a while, each with a reason, an end, and a case that proves it."""
