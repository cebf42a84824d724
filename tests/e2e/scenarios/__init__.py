"""One file each: run(cluster), and clean_up(cluster), which is called whatever came of it."""
