"""`dynamo.tools`."""
