"""The words that every part uses to speak about privacy: relations, budgets, sensitivities, events."""
