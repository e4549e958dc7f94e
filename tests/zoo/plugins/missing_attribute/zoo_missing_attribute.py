class NewName:
    api = 1
