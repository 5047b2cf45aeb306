"""What clients, tables and channels showed of one run, and the rules that it must keep whatever faults there were."""
