"""PTX text to records: tokens, scopes, declarations, instructions. Structure only, no meaning."""
