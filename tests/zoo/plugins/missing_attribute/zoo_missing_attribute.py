class NewName:
    api = 2
