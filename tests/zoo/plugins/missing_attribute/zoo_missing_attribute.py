class NewName:
    api = 3
