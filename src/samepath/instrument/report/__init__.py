"""Reports: one HTML file that needs no network, JSON, JUnit XML, and tables for the terminal. The verdict comes first."""
