"""What does the compiled kernel do, step by step, on a CPU?"""
