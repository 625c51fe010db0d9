/** Run as a process of its own by tests: tries to own the file named on the command line, and prints how it went. */
import { codeOf, openTest } from './fixture.ts'

const opened = openTest({ file: process.argv[2] ?? '' })
console.log(codeOf(opened))
if (opened.ok) opened.value.close()
