/** Reads YAML as a program of a user would. */
import { parse } from 'yaml'

export function parseYaml(text: string): unknown {
  return parse(text)
}
