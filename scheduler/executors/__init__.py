"""What carries a plan out on nodes. No models: desired state goes out, facts come back."""
