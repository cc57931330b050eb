"""The picture of every reshape and transpose that a recorded run made."""
