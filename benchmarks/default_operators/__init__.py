"""The 29 attention operators of DEFault++, written anew from their descriptions, and what the doctor says of them."""
