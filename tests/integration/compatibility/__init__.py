"""The former version beside the present one, in clusters that these tests share."""
