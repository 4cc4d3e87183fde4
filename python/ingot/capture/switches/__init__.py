"""What is switched while torch traces, so that its graph has what engines take. fixes/order.py lists the names that INGOT_DISABLE knows."""
