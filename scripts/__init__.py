"""Tools of the repository: code generation, the developer stack, the demo. Not part of the product."""
