/** A module that throws while it loads. */
throw new Error("the moon is full");
