// Only the depth counts.
void main() {}
