"""Many runs: which there are, one after the other or side by side, and what each leaves."""
