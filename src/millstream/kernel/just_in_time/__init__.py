"""Feedback between joins (Yang and Papadias): what nobody needs is not made before it is needed."""
