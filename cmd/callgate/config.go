package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/callgate/callgate/engine/local"
	"github.com/callgate/callgate/hostfx"
)

// Config is callgate.yaml.
type Config struct {
	Data          string          `mapstructure:"data"`
	Bundle        string          `mapstructure:"bundle"` // short for one permit layer
	Layers        []LayerConfig   `mapstructure:"layers"`
	Tools         string          `mapstructure:"tools"`
	Ceiling       string          `mapstructure:"ceiling"`
	Roots         []RootConfig    `mapstructure:"roots"`
	CA            string          `mapstructure:"ca"`
	Networks      []NetworkConfig `mapstructure:"networks"`
	Hosts         []HostConfig    `mapstructure:"hosts"`
	Secrets       []SecretConfig  `mapstructure:"secrets"`
	Approvals     ApprovalsConfig `mapstructure:"approvals"`
	Grants        GrantsConfig    `mapstructure:"grants"`
	State         *StateConfig    `mapstructure:"state"` // absent: this node's own
	Witnesses     []WitnessConfig `mapstructure:"witnesses"`
	Node          string          `mapstructure:"node"`
	Profile       string          `mapstructure:"profile"` // "", demo or production
	DecideTimeout time.Duration   `mapstructure:"decide_timeout"`
	MaxGuests     int             `mapstructure:"max_guests"`
	MaxRefusals   int             `mapstructure:"max_refusals"` // of a principal in a minute; -1: any number

	// ExecEnforcement is the least that the kernel must do to confine commands.
	ExecEnforcement string          `mapstructure:"exec_enforcement"`
	Sandbox         SandboxConfig   `mapstructure:"sandbox"`
	Journal         JournalConfig   `mapstructure:"journal"`
	Processes       ProcessesConfig `mapstructure:"processes"`

	Witness WitnessingConfig `mapstructure:"witness"`
	Log     LogConfig        `mapstructure:"log"`
}

// The profiles. In demo, identities vote that nothing but --as vouches for. In
// production, what is for trying things out is refused: see local.Config.
const (
	demoProfile       = "demo"
	productionProfile = "production"
)

// LayerConfig is one layer of the policy.
type LayerConfig struct {
	Name       string `mapstructure:"name"`
	Role       string `mapstructure:"role"`       // permit or restrict
	Mode       string `mapstructure:"mode"`       // enforce or shadow
	Entrypoint string `mapstructure:"entrypoint"` // for policies written for something else
	Bundle     string `mapstructure:"bundle"`     // path, https:// or oci://

	// Of a bundle at a URL.
	Every      time.Duration `mapstructure:"every"`
	LongPoll   time.Duration `mapstructure:"long_poll"`
	CA         string        `mapstructure:"ca"`
	TokenFile  string        `mapstructure:"token_file"`
	TokenEnv   string        `mapstructure:"token_env"`
	User       string        `mapstructure:"user"`
	ClientCert string        `mapstructure:"client_cert"`
	ClientKey  string        `mapstructure:"client_key"`

	MaxAge         time.Duration  `mapstructure:"max_age"`
	Signing        *SigningConfig `mapstructure:"signing"`
	AllowRevisions []string       `mapstructure:"allow_revisions"`
}

// SigningConfig says whose signature a layer's bundle must have.
type SigningConfig struct {
	Scope string      `mapstructure:"scope"`
	Keys  []KeyConfig `mapstructure:"keys"`
}

// KeyConfig is one public key.
type KeyConfig struct {
	ID        string `mapstructure:"id"`
	File      string `mapstructure:"file"`
	Algorithm string `mapstructure:"algorithm"` // such as PS256; the key's own when absent
}

// local is the layer as package local takes it.
func (y LayerConfig) local() local.Layer {
	l := local.Layer{
		Name: y.Name, Role: y.Role, Mode: y.Mode, Entrypoint: y.Entrypoint, Bundle: y.Bundle,
		Every: y.Every, LongPoll: y.LongPoll, CA: y.CA, TokenFile: y.TokenFile, TokenEnv: y.TokenEnv, User: y.User,
		ClientCert: y.ClientCert, ClientKey: y.ClientKey,
		MaxAge: y.MaxAge, AllowRevisions: y.AllowRevisions,
	}
	if y.Signing != nil {
		l.Signing = &local.Signing{Scope: y.Signing.Scope}
		for _, k := range y.Signing.Keys {
			l.Signing.Keys = append(l.Signing.Keys, local.SigningKey(k))
		}
	}
	return l
}

// RootConfig names one directory that tools may be given parts of.
type RootConfig struct {
	Name string `mapstructure:"name"`
	Path string `mapstructure:"path"`
}

// NetworkConfig names addresses that tools may be let to, beside "public".
type NetworkConfig struct {
	Name   string   `mapstructure:"name"`
	Ranges []string `mapstructure:"ranges"` // such as 10.1.0.0/16
}

// HostConfig fixes the addresses of one host name.
type HostConfig struct {
	Name      string   `mapstructure:"name"`
	Addresses []string `mapstructure:"addresses"` // IP, or IP:port to go to another port
}

// SecretConfig says where a credential is. Without a file and a command it is in the
// environment, in CALLGATE_SECRET_<NAME>.
type SecretConfig struct {
	Name    string   `mapstructure:"name"`
	File    string   `mapstructure:"file"`
	Command []string `mapstructure:"command"` // that prints it: an absolute path and arguments
	Header  string   `mapstructure:"header"`  // that carries it, for grants that say as: header
}

// LogConfig is about the log for operators on stderr, not the audit log.
type LogConfig struct {
	Level  string `mapstructure:"level"`  // as zerolog names them; "disabled" for none
	Format string `mapstructure:"format"` // text or json
}

// configFlags are the settings that a flag can override.
var configFlags = map[string]string{
	"data":           "data directory",
	"node":           "name of this process in records",
	"decide_timeout": "time for all decisions of one call, such as 50ms",
	"log.level":      "trace, debug, info, warn, error or disabled",
	"log.format":     "text or json",
}

// decideTimeoutKey is of no use to commands that decide nothing.
const decideTimeoutKey = "decide_timeout"

func addConfigFlags(cmd *cobra.Command, except ...string) {
	cmd.Flags().String("config", "callgate.yaml", "configuration file")
	for key, usage := range configFlags {
		if !slices.Contains(except, key) {
			cmd.Flags().String(flagName(key), "", usage)
		}
	}
}

func flagName(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

// loadConfig reads the file that --config names. A flag beats a CALLGATE_
// variable of the environment, which beats the file, which beats the default. A
// key that no setting has is an error.
func loadConfig(cmd *cobra.Command) (Config, error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return Config{}, err
	}
	return readConfig(path, cmd.Flags())
}

// readConfig is loadConfig for a file by name; flags may be nil.
func readConfig(path string, flags *pflag.FlagSet) (Config, error) {
	v := viper.New()
	v.SetConfigFile(path)
	v.SetConfigType("yaml")
	// Without a default a variable of the environment does not reach Unmarshal.
	for key, value := range map[string]any{
		"data": "data", "bundle": "bundle", "layers": []any{}, "tools": "tools", "ceiling": "", "roots": []any{}, "ca": "",
		"networks": []any{}, "hosts": []any{}, "secrets": []any{}, "approvals": map[string]any{}, "grants": map[string]any{}, "witnesses": []any{}, "node": "", "profile": "",
		"decide_timeout": "0s", "max_guests": 0, "max_refusals": 0, "exec_enforcement": "", "log.level": "warn", "log.format": "text",
		"witness.strict": false, "witness.quorum": 0, "witness.every": "0s",
		"sandbox.max_memory": 0, "sandbox.cache": "", "sandbox.cache_key": "", "sandbox.cache_bytes": 0, "sandbox.compile_cpu_seconds": 0, "sandbox.compiler": []any{},
		"processes.life": "0s", "processes.session": 0, "processes.all": 0,
		"journal.dir": "", "journal.bytes": 0, "journal.days": 0,
	} {
		v.SetDefault(key, value)
	}
	v.SetEnvPrefix("CALLGATE")
	v.SetEnvKeyReplacer(strings.NewReplacer(".", "_"))
	v.AutomaticEnv()
	if flags != nil {
		for key := range configFlags {
			flag := flags.Lookup(flagName(key))
			if flag == nil {
				continue
			}
			if err := v.BindPFlag(key, flag); err != nil {
				return Config{}, err
			}
		}
	}
	if err := v.ReadInConfig(); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	var c Config
	if err := v.UnmarshalExact(&c); err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	if len(c.Layers) > 0 {
		if v.InConfig("bundle") || os.Getenv("CALLGATE_BUNDLE") != "" {
			return Config{}, fmt.Errorf("configuration %s: bundle and layers: make the bundle one of the layers", path)
		}
		c.Bundle = "" // the default is for files without layers
	}
	if err := c.resolve(path, flags); err != nil {
		return Config{}, err
	}
	return c, c.validate(path)
}

// resolve makes every path absolute. What the file says is relative to the file;
// what a flag or the environment says is relative to where the command runs.
func (c *Config) resolve(path string, flags *pflag.FlagSet) error {
	here, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	file, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	for key, p := range map[string]*string{"data": &c.Data, "bundle": &c.Bundle, "tools": &c.Tools, "ceiling": &c.Ceiling, "ca": &c.CA} {
		dir := file
		// An empty variable says nothing, to viper neither.
		if os.Getenv("CALLGATE_"+strings.ToUpper(key)) != "" || flags != nil && flags.Changed(key) {
			dir = here
		}
		absolute(p, dir)
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		absolute(&l.Bundle, file)
		absolute(&l.CA, file)
		absolute(&l.TokenFile, file)
		absolute(&l.ClientCert, file)
		absolute(&l.ClientKey, file)
		if l.Signing == nil {
			continue
		}
		for i := range l.Signing.Keys {
			absolute(&l.Signing.Keys[i].File, file)
		}
	}
	for i := range c.Roots {
		absolute(&c.Roots[i].Path, file)
	}
	for i := range c.Secrets {
		absolute(&c.Secrets[i].File, file)
	}
	c.Sandbox.resolve(file)
	absolute(&c.Journal.Dir, file)
	c.Grants.resolve(file)
	c.State.resolve(file)
	c.resolveWitnesses(file)
	return nil
}

// absolute leaves URLs alone.
func absolute(p *string, dir string) {
	if *p != "" && !strings.Contains(*p, "://") && !filepath.IsAbs(*p) {
		*p = filepath.Join(dir, *p)
	}
}

func (c *Config) validate(path string) error {
	var errs []error
	if c.Data == "" {
		errs = append(errs, errors.New("data is empty"))
	}
	if c.Bundle == "" && len(c.Layers) == 0 {
		errs = append(errs, errors.New("bundle is empty"))
	}
	if c.Profile != "" && c.Profile != demoProfile && c.Profile != productionProfile {
		errs = append(errs, fmt.Errorf("profile is not empty, %s or %s", demoProfile, productionProfile))
	}
	if c.DecideTimeout < 0 || c.MaxGuests < 0 {
		errs = append(errs, errors.New("decide_timeout and max_guests are at least 0"))
	}
	if !slices.Contains([]string{"", hostfx.Enforced, hostfx.Partial, hostfx.Unavailable}, c.ExecEnforcement) {
		errs = append(errs, fmt.Errorf("exec_enforcement is not %s, %s or %s", hostfx.Enforced, hostfx.Partial, hostfx.Unavailable))
	}
	if err := errors.Join(c.Sandbox.validate(), c.Journal.validate(), c.Processes.validate()); err != nil {
		errs = append(errs, err)
	}
	if _, err := zerolog.ParseLevel(c.Log.Level); err != nil {
		errs = append(errs, errors.New("log.level is not one of trace, debug, info, warn, error and disabled"))
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		errs = append(errs, errors.New("log.format is not text or json"))
	}
	if _, err := c.networks(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Approvals.validate(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.hosts(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Grants.validate(c.Node); err != nil {
		errs = append(errs, err)
	}
	if err := c.State.validate(c.Node); err != nil {
		errs = append(errs, err)
	}
	if err := c.validateWitnesses(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configuration %s: %w", path, err)
	}
	return nil
}

func (c *Config) networks() (out []hostfx.Network, err error) {
	for _, n := range c.Networks {
		own := hostfx.Network{Name: n.Name}
		for _, r := range n.Ranges {
			p, err := netip.ParsePrefix(r)
			if err != nil {
				return nil, fmt.Errorf("networks: %s: %w", n.Name, err)
			}
			own.Ranges = append(own.Ranges, p)
		}
		out = append(out, own)
	}
	return out, nil
}

func (c *Config) hosts() (out []hostfx.Name, err error) {
	for _, h := range c.Hosts {
		own := hostfx.Name{Host: h.Name}
		for _, a := range h.Addresses {
			at, err := netip.ParseAddrPort(a)
			if err != nil {
				var ip netip.Addr
				if ip, err = netip.ParseAddr(a); err != nil {
					return nil, fmt.Errorf("hosts: %s: %q is not an IP address, with or without a port", h.Name, a)
				}
				at = netip.AddrPortFrom(ip, 0)
			}
			own.Addresses = append(own.Addresses, at)
		}
		out = append(out, own)
	}
	return out, nil
}

// local is the configuration as package local takes it.
func (c *Config) local(errOut io.Writer) local.Config {
	l := local.Config{
		Data: c.Data, Bundle: c.Bundle, Tools: c.Tools, Ceiling: c.Ceiling,
		Node: c.Node, DecideTimeout: c.DecideTimeout, MaxGuests: c.MaxGuests, MaxRefusals: c.MaxRefusals, CA: c.CA, ExecEnforcement: c.ExecEnforcement,
		Webhooks: c.Approvals.local(), AssertedApprovers: c.Profile == demoProfile, Production: c.Profile == productionProfile,
		Grants: c.Grants.local(), State: c.State.local(), Guests: c.Sandbox.local(), Journal: c.Journal.local(), Processes: c.Processes.local(),
		Witnesses: c.localWitnesses(), Witnessing: local.Witnessing(c.Witness),
	}
	l.Networks, _ = c.networks() // validate has refused what is malformed
	l.Names, _ = c.hosts()
	for _, y := range c.Layers {
		l.Layers = append(l.Layers, y.local())
	}
	for _, s := range c.Secrets {
		l.Secrets = append(l.Secrets, local.Secret(s))
	}
	for _, r := range c.Roots {
		l.Roots = append(l.Roots, hostfx.Root{Name: r.Name, Path: r.Path})
	}
	level, err := zerolog.ParseLevel(c.Log.Level)
	if err != nil {
		level = zerolog.WarnLevel // validate has refused it already
	}
	if c.Log.Format == "text" {
		errOut = zerolog.ConsoleWriter{Out: errOut, NoColor: true}
	}
	l.Logger = zerolog.New(errOut).Level(level).With().Timestamp().Logger()
	return l
}
