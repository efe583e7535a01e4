"""What the tests of several layers share: data, runners and small readers, no tests."""
