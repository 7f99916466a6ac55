"""Drawings of `tileproof show`: swizzles, fragments, packs and bank conflicts, for the terminal and as SVG."""
