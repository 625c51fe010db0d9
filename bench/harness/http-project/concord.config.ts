/** The project of the HTTP bench: the tasks of the command bench. */
import { defineProject } from '#app/project'
import { definitions } from '../command-bench.ts'

export default defineProject({ catalog: definitions(() => {}) })
