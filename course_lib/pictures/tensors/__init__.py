"""Pictures of products and heads with all their elements, and of pairs of elements as arrows."""
