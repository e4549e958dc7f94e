"""What leaves a run: models, certificates, releases, and their verification."""
