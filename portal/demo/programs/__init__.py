"""What the demo's workloads run: small programs of the standard library, safe with any arguments.

The node's agent copies them to where workloads find them by name: `demo_train.py` is the command `demo-train`. Each is
one file, takes whole numbers only, and writes in its working directory alone.
"""
