# An empty folder for what the programs of the suite say that they ran.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
