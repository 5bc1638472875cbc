"""How fast, and how surely, is the right known model proposed among very many?"""
