/** Run as a child process: tries to own the file on the command line and prints the result. */
import { codeOf, openTest } from './fixture.ts'

const opened = openTest({ file: process.argv[2] ?? '' })
console.log(codeOf(opened))
if (opened.ok) opened.value.close()
