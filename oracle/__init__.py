"""What are the right bits? Number formats, quantisation and layout rules in integers and exact arithmetic."""
