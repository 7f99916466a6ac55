"""The wave64 machine gfx928 (Hygon K500SM_AI): fragments, LDS, occupancy, wave programs, instruction order.

Nobody here has the hardware: everything rests on what the authors of the INT8 kernels publish (docs/gfx928.md), and
what they do not say is refused by name.
"""
