// The wire contract.
